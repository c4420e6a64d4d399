package proxy

// Close codes that Shardway sends (RFC 6455 section 7.4.1, and its registry).
const (
	closeNormal   = 1000
	closeLeaving  = 1001 // the node is leaving, so the client must connect to another one
	closeProtocol = 1002
	closePolicy   = 1008
	closeMoved    = 1012 // the shard has moved, so the client must reconnect
	closeTryLater = 1013
)

// Reasons in close frames for clients that must reconnect for another cause than a move of their
// shard. They appear in the logs of clients.
const (
	reasonUnfinished = "a message was not whole when the shard had moved"
	reasonBrokeOften = "the connection to the app broke too often"
	reasonLate       = "no app took the socket in time"
	reasonRefused    = "the app did not take the socket"
	// reasonQuarantined is the reason for closeTryLater.
	reasonQuarantined = "the key is in quarantine"
)

// reasonOf returns the reason for a close code that Shardway sends.
func reasonOf(code int) string {
	switch code {
	case closeProtocol:
		return "protocol error"
	case closePolicy:
		return "not allowed"
	case closeLeaving:
		return "the node is leaving"
	case closeMoved:
		return "the shard moved"
	}
	return ""
}
