//go:build !linux

package appsilence

// countUnread knows of no request whether the app has read it.
func countUnread([]waitingConn) int { return 0 }
