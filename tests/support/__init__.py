"""What tests are made with: servers, processes, clocks, and waits for a condition."""
