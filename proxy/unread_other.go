//go:build !linux

package proxy

// countUnread knows of no request whether the app has read it.
func countUnread([]waitingConn) int { return 0 }
