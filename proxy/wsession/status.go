package wsession

import "strconv"

// RelayStart is the reason why a relay of a resumable WebSocket was started.
type RelayStart uint8

// Reasons why a relay was started.
const (
	StartFirst   RelayStart = iota // the client has requested the WebSocket
	StartPlanned                   // the previous relay was handed over
	StartGap                       // the previous relay broke: messages may be missing
	RelayStarts                    // number of values
)

// String returns the reason in metrics and logs.
func (x RelayStart) String() string { return relayStartNames[x] }

var relayStartNames = [RelayStarts]string{"first", "planned", "gap"}

// RelayEnd is the result of a relay that has ended, as seen by the ingress.
type RelayEnd uint8

// Results of a relay.
const (
	EndHandedOver RelayEnd = iota // another relay follows, and no message is missing
	EndBroken                     // another relay follows, and messages may be missing
	EndClosed                     // the client or the app sent a close frame
	EndEnded                      // the app ended the connection without a close frame, or within a message; so the client's connection ended too
	EndReconnect                  // the client was told to reconnect
	EndProtocol                   // the client or the app violated the protocol
	EndClientGone                 // the client disconnected
	RelayEnds                     // number of values
)

// String returns the result in metrics and logs.
func (x RelayEnd) String() string { return relayEndNames[x] }

var relayEndNames = [RelayEnds]string{"handed-over", "gap", "closed", "ended", "come-again", "protocol", "client-gone"}

// SessionEnd is the result of the wait of a session for its next relay.
type SessionEnd uint8

// Results of a wait.
const (
	SessionResumed    SessionEnd = iota // the next relay has started
	SessionRefused                      // the app sent a response other than 101
	SessionLate                         // no app accepted the session in time, or this node is leaving
	SessionClientGone                   // the client disconnected
	SessionEnds                         // number of values
)

// String returns the result in metrics and logs.
func (x SessionEnd) String() string { return sessionEndNames[x] }

var sessionEndNames = [SessionEnds]string{"resumed", "refused", "late", "client-gone"}

// State is the state of a resumable WebSocket.
type State uint32

// States of a session that has had a relay.
const (
	Attached State = iota + 1 // a relay is running
	Detached                  // the session waits for its next relay
)

// String returns the name of the state in metrics.
func (x State) String() string {
	switch x {
	case Attached:
		return "attached"
	case Detached:
		return "detached"
	}
	return "State(" + strconv.Itoa(int(x)) + ")"
}
