package wsession

import "time"

const (
	// CloseFrameTimeout is the time limit for writing one close frame.
	CloseFrameTimeout = 50 * time.Millisecond
	// EndTimeout is how long a WebSocket may continue after its end was requested, for both endpoints to answer
	// their close frames. The limit is short because the next owner of the shard may be waiting.
	EndTimeout = 150 * time.Millisecond
)

// Close codes that Shardway sends (RFC 6455 section 7.4.1, and its registry).
const (
	CloseNormal      = 1000
	CloseNodeLeaving = 1001 // the node is leaving, so the client must connect to another one
	CloseProtocol    = 1002
	CloseInvalidData = 1007
	ClosePolicy      = 1008
	CloseTooLong     = 1009
	CloseInternal    = 1011
	CloseShardMoved  = 1012 // the shard has moved, so the client must reconnect
	CloseTryLater    = 1013
)

// Reasons in close frames for clients that must reconnect for a cause other than a move of their
// shard. They appear in client logs.
const (
	ReasonMessageIncomplete = "a message was not whole when the shard had moved"
	ReasonTooManyFailures   = "the connection to the app broke too often"
	ReasonTimedOut          = "no app took the socket in time"
	ReasonRefused           = "the app did not take the socket"
	// ReasonReplayTooLong is the reason if the app requested a replay of messages that are too long.
	ReasonReplayTooLong = "the first messages are too long to be sent again"
	// ReasonReplayMemory is the reason if the node had no memory for the messages to replay.
	ReasonReplayMemory = "the node had no memory for the first messages"
	// ReasonQuarantined is the reason for CloseTryLater.
	ReasonQuarantined = "the key is in quarantine"
)

// DefaultReason returns the reason for a close code that Shardway sends.
func DefaultReason(code int) string {
	switch code {
	case CloseProtocol:
		return "protocol error"
	case ClosePolicy:
		return "not allowed"
	case CloseNodeLeaving:
		return "the node is leaving"
	case CloseShardMoved:
		return "the shard moved"
	}
	return ""
}
