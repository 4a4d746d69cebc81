"""Parts of `ci/lab`: kernel, initramfs, accel, switch, vm, ssh, faults, state, cli."""
