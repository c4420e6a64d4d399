package wsession

import "strconv"

// RelayStart is the reason why a relay of a resumable WebSocket was started.
type RelayStart uint8

// Reasons why a relay was started.
const (
	StartRequested    RelayStart = iota // the client has requested the WebSocket
	StartHandedOver                     // the previous relay was handed over
	StartAfterFailure                   // the previous relay broke: messages may be missing
	RelayStartCount                     // number of values
)

// String returns the name of the reason in metrics and logs.
func (s RelayStart) String() string { return relayStartNames[s] }

var relayStartNames = [RelayStartCount]string{"first", "planned", "gap"}

// RelayEnd is the result of a relay that has ended, as seen by the ingress.
type RelayEnd uint8

// Results of a relay.
const (
	EndHandedOver RelayEnd = iota // another relay follows, and no message is missing
	EndFailed                     // another relay follows, and messages may be missing
	EndClosed                     // the client or the app sent a close frame
	// EndDisconnected means that the client's connection was ended because the app ended its
	// connection without a close frame, or in the middle of a message.
	EndDisconnected
	EndMustReconnect // the client was told to reconnect
	EndProtocolError // the client or the app violated the protocol
	EndClientGone    // the client disconnected
	RelayEndCount    // number of values
)

// String returns the name of the result in metrics and logs.
func (e RelayEnd) String() string { return relayEndNames[e] }

var relayEndNames = [RelayEndCount]string{"handed-over", "gap", "closed", "ended", "come-again", "protocol", "client-gone"}

// SessionEnd is the result of a session's wait for its next relay.
type SessionEnd uint8

// Results of a wait.
const (
	SessionResumed    SessionEnd = iota // the next relay has started
	SessionRefused                      // the app sent a response other than 101
	SessionTimedOut                     // no app accepted the session in time, or this node is leaving
	SessionClientGone                   // the client disconnected
	SessionEndCount                     // number of values
)

// String returns the name of the result in metrics and logs.
func (e SessionEnd) String() string { return sessionEndNames[e] }

var sessionEndNames = [SessionEndCount]string{"resumed", "refused", "late", "client-gone"}

// State is the state of a resumable WebSocket.
type State uint32

// States of a session that has had a relay.
const (
	Attached State = iota + 1 // a relay is running
	Detached                  // the session waits for its next relay
)

// String returns the name of the state in metrics.
func (s State) String() string {
	switch s {
	case Attached:
		return "attached"
	case Detached:
		return "detached"
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}
