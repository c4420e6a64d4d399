package proxy

import (
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455 section 4.2.2 wants it
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
)

// Headers and values that Shardway and apps exchange about resumable WebSockets.
const (
	headerWebSocket        = "Shardway-WebSocket" // request: the id of the session; 101 response: the app's consent
	headerWebSocketResumed = "Shardway-WebSocket-Resumed"
	headerWebSocketGap     = "Shardway-WebSocket-Gap"
	headerWebSocketClose   = "Shardway-WebSocket-Close"

	valueResumable = "keep" // value with which the app consents
	valueAccepted  = "kept" // value with which the owner confirms to the ingress
)

const (
	// maxBreaks is the number of relays of a session that may break within breakPeriod. When one
	// more breaks, the client's connection is closed, and the client must reconnect.
	maxBreaks   = 3
	breakPeriod = time.Minute
)

// webSocketSession is a WebSocket that survives the loss of its upstream connection. The ingress
// runs successive relays for it (websocket_resume.go). An owner that is not the ingress runs a
// single relay for its own webSocketSession. The session belongs to the goroutine of the client's
// connection.
type webSocketSession struct {
	id                [32]byte // in hex
	resumeAttempts    uint64   // number of attempts after the first relay that may have reached an app
	messagesMayBeLost bool     // messages may have been lost since the previous relay
	// releaseUpgradePlace releases the upgrade place of the attempt after the app has responded. nil means
	// that the attempt has none.
	releaseUpgradePlace func()

	// The following fields are used only at the ingress.
	relays            int             // number of 101 responses so far
	protocol          string          // subprotocol of the first response
	clientScanner     wsframe.Scanner // scans the data of the client across all relays
	discardsMessage   bool            // the rest of an interrupted message must be discarded
	mayHaveReachedApp bool            // the present attempt may have reached an app
	needsRelay        bool            // another relay follows the one that has ended
	relayStarted      bool            // the present attempt has started a relay
	refusalCode       int             // close code for the client after a response other than 101
	closeCode         int             // close code for the client; zero means to end without a close frame
	closeReason       string          // reason for closeCode; empty means the text of wsession.DefaultReason
	closeFrameSent    bool            // the client has received a close frame
	lastRelayBulk     bool            // the last relay has transferred much data
	recentBreaks      [maxBreaks]time.Time
	sessionStatus

	// cancelWait cancels the wait for the next relay. nil means that the session does not wait. Any
	// goroutine may call it.
	cancelWait atomic.Pointer[context.CancelFunc]
	// reconnectAt is when a node that is leaving closes the client's connection. Only the sweep
	// uses it.
	reconnectAt time.Duration
}

// isWebSocketRequest reports whether a request is for a WebSocket.
func isWebSocketRequest(req *h1.Request) bool {
	return req.RequestsUpgrade() && string(req.Method()) == "GET" && req.Has(h1.FieldUpgrade) &&
		strings.EqualFold(string(req.Known(h1.FieldUpgrade)), "websocket")
}

// newSession returns the session for a request of a client.
func newSession() *webSocketSession {
	session := &webSocketSession{clientScanner: wsframe.Client()}
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	hex.Encode(session.id[:], raw[:])
	return session
}

// readSession returns the session that the ingress describes in the headers of req. It returns nil
// if there is none.
func readSession(req *h1.Request) *webSocketSession {
	id := req.Value(headerWebSocket)
	if len(id) != 32 {
		return nil
	}
	session := &webSocketSession{}
	copy(session.id[:], id)
	session.resumeAttempts, _ = route.ParseUint(req.Value(headerWebSocketResumed))
	session.messagesMayBeLost = string(req.Value(headerWebSocketGap)) == "1"
	return session
}

// appendHeaders appends the session headers for the app and the owner. attempt is the number of the
// attempt; zero means the first one.
func (session *webSocketSession) appendHeaders(dst []byte, attempt uint64) []byte {
	dst = append(dst, headerWebSocket+": "...)
	dst = append(dst, session.id[:]...)
	dst = append(dst, "\r\n"...)
	if attempt > 0 {
		dst = append(dst, headerWebSocketResumed+": "...)
		dst = strconv.AppendUint(dst, attempt, 10)
		dst = append(dst, "\r\n"...)
	}
	if session.messagesMayBeLost {
		dst = append(dst, headerWebSocketGap+": 1\r\n"...)
	}
	return dst
}

// appendSession appends the headers of the request's session, if it has one.
func (rw requestWriter) appendSession(dst []byte) []byte {
	switch session := rw.exchange.session; {
	case session == nil:
		return dst
	case rw.ingress != "" || session.relays == 0:
		return session.appendHeaders(dst, session.resumeAttempts)
	default:
		return session.appendHeaders(dst, session.resumeAttempts+1)
	}
}

// isResumption reports whether the request resumes a session, whose client has already received its
// response.
func (exchange *exchange) isResumption() bool {
	return exchange.session != nil && exchange.session.relays > 0
}

// isResumable reports whether a 101 response makes the session resumable. The ingress calls it for
// the first relay, and the owner for each relay. kind says whether the response comes from the app
// or from the owner.
func (session *webSocketSession) isResumable(res *h1.Response, settings *Settings, routeKind route.Kind) bool {
	expected := valueResumable
	if routeKind == route.Remote {
		expected = valueAccepted
	}
	return session != nil && !settings.CloseSockets && string(res.Value(headerWebSocket)) == expected &&
		res.Find("Sec-WebSocket-Extensions", 0) < 0 && strings.EqualFold(string(res.Known(h1.FieldUpgrade)), "websocket")
}

// isContinuedBy reports whether a 101 response to the request of a later relay continues the
// session: it must be resumable, and must select the same subprotocol.
func (session *webSocketSession) isContinuedBy(res *h1.Response, req *h1.Request, settings *Settings, routeKind route.Kind) bool {
	return session.isResumable(res, settings, routeKind) && string(res.Value("Sec-WebSocket-Accept")) == secWebSocketAccept(req.Value("Sec-WebSocket-Key")) &&
		string(res.Value("Sec-WebSocket-Protocol")) == session.protocol
}

// secWebSocketAccept returns the value of Sec-WebSocket-Accept (RFC 6455 section 4.2.2).
func secWebSocketAccept(key []byte) string {
	sum := sha1.Sum(append(append(make([]byte, 0, 64), key...), "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...)) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// closeCodeFor returns the close code for the client after an app has sent a response other than 101.
func closeCodeFor(res *h1.Response) int {
	if code, ok := route.ParseUint(res.Value(headerWebSocketClose)); ok && code < 5000 && wsframe.ValidCode(int(code)) {
		return int(code)
	}
	if res.Status() == 401 || res.Status() == 403 {
		return wsession.ClosePolicy
	}
	return wsession.CloseShardMoved
}

// recordBreak records that a relay broke at now. It reports whether more than maxBreaks relays have
// broken within breakPeriod.
func (session *webSocketSession) recordBreak(now time.Time) bool {
	if oldest := session.recentBreaks[0]; !oldest.IsZero() && now.Sub(oldest) < breakPeriod {
		return true
	}
	copy(session.recentBreaks[:], session.recentBreaks[1:])
	session.recentBreaks[maxBreaks-1] = now
	return false
}
