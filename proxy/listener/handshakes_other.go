//go:build unix && !linux

package listener

// hasHandshakes returns true, because the system does not report handshakes in progress.
func hasHandshakes(int) bool { return true }
