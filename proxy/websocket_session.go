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
	"shardway/proxy/wsframe"
)

// Words between Shardway and apps about WebSockets that stay while their shard moves.
const (
	headerSocket        = "Shardway-Socket" // in a request the socket's id, in a 101 what the app says
	headerSocketResumed = "Shardway-Socket-Resumed"
	headerSocketGap     = "Shardway-Socket-Gap"
	headerSocketClose   = "Shardway-Socket-Close"

	socketKeep = "keep" // the app's word
	socketKept = "kept" // the owner's, to the node that has the client
)

const (
	// unplannedMost is how many legs may break within unplannedFor: one more, and the
	// client comes again by itself.
	unplannedMost = 3
	unplannedFor  = time.Minute
)

// webSocketSession is a WebSocket that may outlive its connection to the app. That is a leg: at the
// node that has the client one leg follows the other (websocket_resume.go); the owner, who has the
// app, knows of one only. Its goroutine is the connection's.
type webSocketSession struct {
	id      [32]byte // in hex
	resumed uint64   // attempts after the first leg that may have reached an app
	gap     bool     // messages may be missing
	// upgrade gives the place of the attempt back, once the app has answered; nil: it has
	// none.
	upgrade func()

	// At the node that has the client.
	relays       int             // 101s so far
	protocol     string          // the first one's subprotocol
	up           wsframe.Scanner // what the client has sent, over all legs
	skip         bool            // the rest of a message that broke is to be discarded
	delivered    bool            // the present attempt may have reached an app
	resumes      bool            // the leg that is over asks for another one
	relayStarted bool            // the present attempt came to a leg
	refused      int             // what an answer that is no leg has the client closed with
	closing      int             // what the client is to be closed with; zero: it ends without
	why          string          // the text behind that; empty: what reasonOf says
	lingers      bool            // it has been told why
	bulk         bool            // its last leg has transferred much
	broken       [unplannedMost]time.Time
	sessionStatus

	// wait ends the wait for the next leg; any goroutine may call it.
	wait atomic.Pointer[context.CancelFunc]
	// leaves is when a leaving node tells the client to come again; the sweep's alone.
	leaves time.Duration
}

// asksSocket reports whether a request is for a WebSocket.
func asksSocket(req *h1.Request) bool {
	return req.Upgrades() && string(req.Method()) == "GET" && req.Has(h1.FieldUpgrade) &&
		strings.EqualFold(string(req.Known(h1.FieldUpgrade)), "websocket")
}

// newSession makes the socket of a client's request.
func newSession() *webSocketSession {
	k := &webSocketSession{up: wsframe.Client()}
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	hex.Encode(k.id[:], raw[:])
	return k
}

// readSession reads what the node that has the client says of the socket; nil: nothing.
func readSession(req *h1.Request) *webSocketSession {
	id := req.Value(headerSocket)
	if len(id) != 32 {
		return nil
	}
	k := &webSocketSession{}
	copy(k.id[:], id)
	k.resumed, _ = parseUint(req.Value(headerSocketResumed))
	k.gap = string(req.Value(headerSocketGap)) == "1"
	return k
}

// append appends what app and owner are told. The number is that of the attempt.
func (k *webSocketSession) append(b []byte, attempt uint64) []byte {
	b = append(b, headerSocket+": "...)
	b = append(b, k.id[:]...)
	b = append(b, "\r\n"...)
	if attempt > 0 {
		b = append(b, headerSocketResumed+": "...)
		b = strconv.AppendUint(b, attempt, 10)
		b = append(b, "\r\n"...)
	}
	if k.gap {
		b = append(b, headerSocketGap+": 1\r\n"...)
	}
	return b
}

// appendSocket appends what is to be said of the request's socket.
func (f requestWriter) appendSocket(b []byte) []byte {
	switch k := f.x.session; {
	case k == nil:
		return b
	case f.ingress != "" || k.relays == 0:
		return k.append(b, k.resumed)
	default:
		return k.append(b, k.resumed+1)
	}
}

// isResumption reports whether the request is for a further leg: its client has its answer.
func (x *exchange) isResumption() bool { return x.session != nil && x.session.relays > 0 }

// keeps reports whether an answer 101 to a first leg, or at the owner to any, says that
// the socket is to be kept.
func (k *webSocketSession) keeps(res *h1.Response, set *Settings, way Kind) bool {
	word := socketKeep
	if way == Remote {
		word = socketKept
	}
	return k != nil && !set.CloseSockets && string(res.Value(headerSocket)) == word &&
		res.Find("Sec-WebSocket-Extensions", 0) < 0 && strings.EqualFold(string(res.Known(h1.FieldUpgrade)), "websocket")
}

// continues reports whether an answer 101 continues the socket.
func (k *webSocketSession) continues(res *h1.Response, req *h1.Request, set *Settings, way Kind) bool {
	return k.keeps(res, set, way) && string(res.Value("Sec-WebSocket-Accept")) == acceptOf(req.Value("Sec-WebSocket-Key")) &&
		string(res.Value("Sec-WebSocket-Protocol")) == k.protocol
}

// acceptOf returns the value of Sec-WebSocket-Accept (RFC 6455 section 4.2.2).
func acceptOf(key []byte) string {
	sum := sha1.Sum(append(append(make([]byte, 0, 64), key...), "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...)) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// closesWith returns the code to close the client with after an answer that is no 101.
func closesWith(res *h1.Response) int {
	if code, ok := parseUint(res.Value(headerSocketClose)); ok && code < 5000 && wsframe.ValidCode(int(code)) {
		return int(code)
	}
	if res.Status() == 401 || res.Status() == 403 {
		return closePolicy
	}
	return int(closeMoved)
}

// Codes for clients, beside those of frames.go.
const (
	closeNormal   = 1000
	closeProtocol = 1002
	closePolicy   = 1008
	closeTryLater = 1013
)

// tooOften notes a leg that broke at now, and reports whether too many have.
func (k *webSocketSession) tooOften(now time.Time) bool {
	if first := k.broken[0]; !first.IsZero() && now.Sub(first) < unplannedFor {
		return true
	}
	copy(k.broken[:], k.broken[1:])
	k.broken[unplannedMost-1] = now
	return false
}
