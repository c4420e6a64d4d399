//go:build !linux

package appsilence

// countUnread returns 0, because only Linux shows whether the app has read a request.
func countUnread([]waitingConn) int { return 0 }
