"""What tests of the web UI share: objects in every state, and the server that shows them."""
