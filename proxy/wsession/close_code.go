package wsession

// Close codes that Shardway sends (RFC 6455 section 7.4.1, and its registry).
const (
	CloseNormal   = 1000
	CloseLeaving  = 1001 // the node is leaving, so the client must connect to another one
	CloseProtocol = 1002
	ClosePolicy   = 1008
	CloseMoved    = 1012 // the shard has moved, so the client must reconnect
	CloseTryLater = 1013
)

// Reasons in close frames for clients that must reconnect for another cause than a move of their
// shard. They appear in the logs of clients.
const (
	ReasonUnfinished = "a message was not whole when the shard had moved"
	ReasonBrokeOften = "the connection to the app broke too often"
	ReasonLate       = "no app took the socket in time"
	ReasonRefused    = "the app did not take the socket"
	// ReasonQuarantined is the reason for CloseTryLater.
	ReasonQuarantined = "the key is in quarantine"
)

// ReasonOf returns the reason for a close code that Shardway sends.
func ReasonOf(code int) string {
	switch code {
	case CloseProtocol:
		return "protocol error"
	case ClosePolicy:
		return "not allowed"
	case CloseLeaving:
		return "the node is leaving"
	case CloseMoved:
		return "the shard moved"
	}
	return ""
}
