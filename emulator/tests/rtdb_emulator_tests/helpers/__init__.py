"""What several tests need: processes, apps of Firebase, clients of REST and sockets, Node.js and a Chromium."""
