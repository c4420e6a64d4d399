package shardkey

import (
	"bytes"
	"unicode/utf8"

	"shardway/keysource"
	"shardway/keysource/jsonkey"
)

// Problem details for a first message and its upgrade request.
const (
	detailNotUTF8 = "a message that is not valid UTF-8 for "
	detailBinary  = "a binary message for "
	detailUpgrade = "an Upgrade with several protocols for "
)

// FirstMessage is the first message of a WebSocket that this node has accepted itself, in order to
// read the key from it.
type FirstMessage struct {
	IsText bool   // a text message; otherwise a binary message
	Data   []byte // the payload; nil after Release

	keySource string // source that yielded the key; empty means none
	key       []byte
}

// Release drops the message. The source that yielded the key still yields it, so that a resumed WebSocket keeps its
// key after a change of the key configuration. Other sources find nothing.
func (m *FirstMessage) Release() { m.Data = nil }

// keyFrom returns the key that a source finds in the message, or nil if it finds none. If the
// WebSocket must be refused, problemText is the reason.
func (m *FirstMessage) keyFrom(source *keysource.Source) (key []byte, problemText string) {
	switch {
	case m == nil:
		return nil, ""
	case m.Data == nil:
		if m.keySource == source.String() {
			return m.key, ""
		}
		return nil, ""
	case !m.IsText:
		// Some libraries, such as ws for Node.js, pass text and binary messages to the app alike. If a later source
		// were used instead, the client could choose the owner.
		return nil, detailBinary
	case !utf8.Valid(m.Data):
		return nil, detailNotUTF8
	}
	if key = m.Data; source.Kind == keysource.WSJSON {
		var err error
		if key, err = jsonkey.FindValue(nil, m.Data, source.Name); err != nil {
			return nil, err.Error() + " for "
		}
	}
	if len(key) > maxBodyKey {
		return nil, detailLongKey
	}
	if len(key) == 0 {
		return nil, ""
	}
	m.keySource, m.key = source.String(), bytes.Clone(key)
	return m.key, ""
}

// firstMessageKey returns the key that a source finds in the first message of the request's WebSocket, or
// nil if there is none. If the request must be refused, problemText is the reason.
func (e *Extractor) firstMessageKey(source *keysource.Source) (key []byte, problemText string) {
	if e.FirstMessage == nil && e.isUnclearUpgrade() {
		return nil, detailUpgrade
	}
	return e.FirstMessage.keyFrom(source)
}

// isUnclearUpgrade reports whether only some apps accept the request as a WebSocket, because the client offers
// another protocol as well.
func (e *Extractor) isUnclearUpgrade() bool {
	const name, webSocket = "Upgrade", "websocket"
	if !e.Request.RequestsUpgrade() {
		return false
	}
	lines, hasWebSocket, hasOther := 0, false, false
	for i := e.Request.Find(name, 0); i >= 0; i = e.Request.Find(name, i+1) {
		_, value := e.Request.Field(i)
		lines++
		hasWebSocket = hasWebSocket || bytes.Contains(bytes.ToLower(value), []byte(webSocket))
		hasOther = hasOther || lines > 1 || !bytes.EqualFold(value, []byte(webSocket))
	}
	return hasWebSocket && hasOther
}

// readsMessage reports whether the source needs the first message of the request's WebSocket, and the
// node has not read it.
func (e *Extractor) readsMessage(source *keysource.Source) bool {
	return source.ReadsFirstMessage() && e.FirstMessage == nil && e.Request.RequestsWebSocket() && !e.isUnclearUpgrade()
}
