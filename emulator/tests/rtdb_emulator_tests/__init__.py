"""The tests of the emulator. What the tests of other projects may use as well is in `helpers`."""
