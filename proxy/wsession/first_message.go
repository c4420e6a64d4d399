package wsession

// FirstMessage is the result of waiting for the first message of a WebSocket, which contains its
// key.
type FirstMessage uint8

// Results of the wait for a first message.
const (
	FirstHasKey       FirstMessage = iota // the message has a key
	FirstHasNoKey                         // the message has no key, or an ambiguous one
	FirstInvalid                          // the client violated the protocol
	FirstTooLong                          // the message exceeds the limit
	FirstTimedOut                         // the message did not arrive in time
	FirstEvicted                          // too many WebSockets waited
	FirstClientGone                       // the client disconnected, or sent a close frame
	FirstMessageCount                     // number of values
)

// String returns the name of the result in metrics.
func (m FirstMessage) String() string { return firstMessageNames[m] }

var firstMessageNames = [FirstMessageCount]string{"key", "no-key", "invalid", "too-long", "timeout", "evicted", "client-gone"}
