package wsrelay

import (
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455 section 4.2.2 requires it
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
	"shardway/shardmap"
)

// Headers and values that Shardway and apps exchange about resumable WebSockets.
const (
	Header                 = "Shardway-WebSocket" // request: the id of the session; 101 response: the app's consent
	headerWebSocketResumed = "Shardway-WebSocket-Resumed"
	headerWebSocketGap     = "Shardway-WebSocket-Gap"
	headerWebSocketClose   = "Shardway-WebSocket-Close"

	valueResumable = "keep" // value with which the app consents
	ValueAccepted  = "kept" // value with which the owner confirms to the ingress
)

const (
	// maxBreaks is the number of relays of a session that may break within breakPeriod. If one more
	// breaks, the client's connection is closed and the client must reconnect.
	maxBreaks   = 3
	breakPeriod = time.Minute
)

// Session is a WebSocket that survives the loss of its upstream connection. The ingress
// runs successive relays for it. An owner that is not the ingress runs a
// single relay for its own Session. The session belongs to the goroutine of the client's
// connection.
type Session struct {
	ID                [32]byte // in hex
	ResumeAttempts    uint64   // number of attempts after the first relay that may have reached an app
	MessagesMayBeLost bool     // messages may have been lost since the previous relay
	// ReleaseUpgradePlace frees the attempt's upgrade slot after the app has responded. nil means
	// that the attempt has none.
	ReleaseUpgradePlace func()

	// The following fields describe the current attempt to start a relay. They are used only at the
	// ingress.
	MayHaveReachedApp bool // the attempt may have reached an app
	RelayStarted      bool // the attempt has started a relay
	RefusalCode       int  // close code for the client after a response other than 101

	// The following fields describe what follows after a relay. They are used only at the ingress.
	NeedsRelay     bool   // another relay follows the one that has ended
	CloseCode      int    // close code for the client; zero means to end without a close frame
	CloseReason    string // reason for CloseCode; empty means the text of wsession.DefaultReason
	CloseFrameSent bool   // the client has received a close frame

	// The following fields describe the relays so far. They are used only at the ingress.
	Relays          int             // number of 101 responses
	LastRelayBulk   bool            // the last relay has transferred much data
	protocol        string          // subprotocol of the first response
	clientScanner   wsframe.Scanner // scans the data of the client across all relays
	discardsMessage bool            // the rest of an interrupted message must be discarded
	prologue        []byte          // frames of the client that the next relay sends before all others
	replay          replay          // messages of the client that each later relay sends first
	recentBreaks    [maxBreaks]time.Time
	Status

	// CancelWait cancels the wait for the next relay. It is nil while the session does not wait.
	// Any goroutine may call it.
	CancelWait atomic.Pointer[context.CancelFunc]
	// ReconnectAt is when a node that is leaving closes the client's connection. Only the sweep
	// uses it.
	ReconnectAt time.Duration
}

// Status is the part of a session that other goroutines may read. It is used at the ingress only.
type Status struct {
	// state is zero before the first relay and after the last one. Shard and KeyHash are written
	// once, before the first relay.
	state   atomic.Uint32
	Shard   shardmap.Shard
	KeyHash uint64 // shardkey.Hash of the key without a secret, which must not leave this process

	// The following fields belong to the goroutine of the session.
	StartReason     wsession.RelayStart // reason of the last relay
	LostAt          time.Time           // when the hand-over was requested, or otherwise when the relay ended
	CountsInSummary bool                // the relay may have ended together with others, so that it counts in the hand-over summary
}

// SetState sets the state; zero means that the session has not begun or has ended.
func (status *Status) SetState(state wsession.State) { status.state.Store(uint32(state)) }

// State returns the state. Any goroutine may call it.
func (status *Status) State() wsession.State { return wsession.State(status.state.Load()) }

// NewSession returns the session for a request of a client.
func NewSession() *Session {
	session := &Session{clientScanner: wsframe.Client()}
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	hex.Encode(session.ID[:], raw[:])
	return session
}

// ReadSession returns the session described by the ingress in the headers of req, or nil if there
// is none.
func ReadSession(req *h1.Request) *Session {
	id := req.Value(Header)
	if len(id) != 32 {
		return nil
	}
	session := &Session{}
	copy(session.ID[:], id)
	session.ResumeAttempts, _ = route.ParseUint(req.Value(headerWebSocketResumed))
	session.MessagesMayBeLost = string(req.Value(headerWebSocketGap)) == "1"
	return session
}

// AppendHeaders appends the session headers for the app and the owner. attempt is the number of the
// attempt; zero means the first one.
func (session *Session) AppendHeaders(dst []byte, attempt uint64) []byte {
	dst = append(dst, Header+": "...)
	dst = append(dst, session.ID[:]...)
	dst = append(dst, "\r\n"...)
	if attempt > 0 {
		dst = append(dst, headerWebSocketResumed+": "...)
		dst = strconv.AppendUint(dst, attempt, 10)
		dst = append(dst, "\r\n"...)
	}
	if session.MessagesMayBeLost {
		dst = append(dst, headerWebSocketGap+": 1\r\n"...)
	}
	return dst
}

// IsResumable reports whether a 101 response makes the session resumable. The ingress calls it for
// the first relay, and the owner for each relay. kind states whether the response comes from the app
// or from the owner. session may be nil.
func (session *Session) IsResumable(res *h1.Response, routeKind route.Kind) bool {
	expected := valueResumable
	if routeKind == route.Remote {
		expected = ValueAccepted
	}
	_, isConsent := ParseConsent(res.Value(Header), expected)
	return session != nil && isConsent &&
		res.Find("Sec-WebSocket-Extensions", 0) < 0 && strings.EqualFold(string(res.Known(h1.FieldUpgrade)), "websocket")
}

// IsContinuedBy reports whether a 101 response to the request of a later relay continues the
// session: it must be resumable, and must select the same subprotocol.
func (session *Session) IsContinuedBy(res *h1.Response, req *h1.Request, routeKind route.Kind) bool {
	return session.IsResumable(res, routeKind) && string(res.Value("Sec-WebSocket-Accept")) == AcceptOf(req.Value("Sec-WebSocket-Key")) &&
		string(res.Value("Sec-WebSocket-Protocol")) == session.protocol
}

// AcceptOf returns the value of Sec-WebSocket-Accept (RFC 6455 section 4.2.2).
func AcceptOf(key []byte) string {
	sum := sha1.Sum(append(append(make([]byte, 0, 64), key...), "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...)) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// CloseCodeFor returns the close code for the client after an app has sent a response other than 101.
func CloseCodeFor(res *h1.Response) int {
	if code, ok := RequestedCloseCode(res); ok {
		return code
	}
	if res.Status() == 401 || res.Status() == 403 {
		return wsession.ClosePolicy
	}
	return wsession.CloseShardMoved
}

// RequestedCloseCode returns the close code that the app has requested in a response other than
// 101. ok is false if it requested none, or one that must not occur in a close frame.
func RequestedCloseCode(res *h1.Response) (code int, ok bool) {
	number, ok := route.ParseUint(res.Value(headerWebSocketClose))
	if !ok || number >= 5000 || !wsframe.ValidCode(int(number)) {
		return 0, false
	}
	return int(number), true
}

// recordBreak records that a relay broke at now. It reports whether more than maxBreaks relays have
// broken within breakPeriod.
func (session *Session) recordBreak(now time.Time) bool {
	if oldest := session.recentBreaks[0]; !oldest.IsZero() && now.Sub(oldest) < breakPeriod {
		return true
	}
	copy(session.recentBreaks[:], session.recentBreaks[1:])
	session.recentBreaks[maxBreaks-1] = now
	return false
}

// RecordStart records, at the ingress, that the app accepted the session's request with a 101
// response. replays is the memory for messages that later upstream connections receive.
func (session *Session) RecordStart(res *h1.Response, replays *ReplayMemory) {
	session.MessagesMayBeLost = false
	if session.Relays++; session.Relays > 1 {
		session.prologue = session.replay.messages()
		return
	}
	session.protocol = string(res.Value("Sec-WebSocket-Protocol"))
	session.replay.begin(replays, ReplayOf(res), session.prologue)
}

// ReleaseReplay releases the messages that the session has stored. It must be called when the session ends.
func (session *Session) ReleaseReplay() { session.replay.release() }

// ReplayOf returns how many messages of the client each later upstream connection receives first,
// according to the 101 response of an app or of an owner.
func ReplayOf(res *h1.Response) int {
	value := res.Value(Header)
	messages, ok := ParseConsent(value, valueResumable)
	if !ok {
		messages, _ = ParseConsent(value, ValueAccepted)
	}
	return messages
}

// SetFirstMessage sets the frame of the client's first message, which this node read before the
// first relay and which that relay sends to the app. scanner has parsed all data of the client so
// far.
func (session *Session) SetFirstMessage(frame []byte, scanner wsframe.Scanner) {
	session.prologue, session.clientScanner = frame, scanner
}

// ReleaseUpgrade frees the upgrade slot if the session still holds one. It is called when the app
// has responded to the upgrade, or when the connection is closed.
func (session *Session) ReleaseUpgrade() {
	if release := session.ReleaseUpgradePlace; release != nil {
		session.ReleaseUpgradePlace = nil
		release()
	}
}
