package wsfirst

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsframe"
	"shardway/proxy/wsrelay"
)

// VersionLine is the header line of a response that rejects an unsupported WebSocket version.
const VersionLine = "Sec-WebSocket-Version: 13\r\n"

// Headers of an upgrade request (RFC 6455 section 4.1).
const (
	headerKey      = "Sec-WebSocket-Key"
	headerVersion  = "Sec-WebSocket-Version"
	headerProtocol = "Sec-WebSocket-Protocol"
)

// Accepted is a WebSocket that the node has accepted before its app. Message, Frame and Scanner are
// set once the first message has been read.
type Accepted struct {
	Protocol string // selected subprotocol; empty means none
	Message  *shardkey.FirstMessage
	Frame    []byte          // the first message, as a single frame
	Scanner  wsframe.Scanner // has parsed all data of the client that was read

	// CloseCode and CloseReason describe the close frame for the client if the app does not accept
	// the WebSocket.
	CloseCode   int
	CloseReason string
}

// MemorySize returns the memory of the first message in bytes.
func (accepted *Accepted) MemorySize() int {
	size := cap(accepted.Frame)
	if accepted.Message != nil {
		size += cap(accepted.Message.Data)
	}
	return size
}

// TakeFrame returns Frame, which the caller sends to the app, and drops the first message.
func (accepted *Accepted) TakeFrame() []byte {
	frame := accepted.Frame
	accepted.Frame = nil
	accepted.Message.Release()
	return frame
}

// CheckUpgrade validates an upgrade request for a WebSocket (RFC 6455 section 4.2.1). It returns nil if
// the node can accept it.
func CheckUpgrade(req *h1.Request) *problem.Problem {
	version, isUnique := uniqueValue(req, headerVersion)
	if string(version) != "13" || !isUnique {
		return &problem.Problem{Code: problem.BadRequest, Status: 426, Detail: "the version of WebSocket must be 13 (Sec-WebSocket-Version)"}
	}
	key, isUnique := uniqueValue(req, headerKey)
	decoded, err := base64.StdEncoding.Strict().AppendDecode(nil, key)
	if err != nil || len(decoded) != 16 || !isUnique {
		return &problem.Problem{Code: problem.BadRequest, Detail: "Sec-WebSocket-Key must be the base64 form of 16 bytes"}
	}
	return nil
}

// uniqueValue returns the value of a header that must occur exactly once.
func uniqueValue(req *h1.Request, name string) (value []byte, isUnique bool) {
	first := req.Find(name, 0)
	if first < 0 {
		return nil, false
	}
	_, value = req.Field(first)
	return value, req.Find(name, first+1) < 0
}

// SelectProtocol returns the first of the supported subprotocols that the client offers, or "" if the
// client offers none. It returns a problem if the client offers subprotocols and the node supports none
// of them: browsers then reject a response without a subprotocol.
func SelectProtocol(req *h1.Request, supported []string) (string, *problem.Problem) {
	offered := offeredProtocols(req)
	for _, name := range supported {
		if slices.Contains(offered, name) {
			return name, nil
		}
	}
	if len(offered) == 0 {
		return "", nil
	}
	return "", &problem.Problem{
		Code: problem.BadRequest, Param: headerProtocol,
		Detail: "the node accepts this WebSocket itself, and may select none of the offered subprotocols; name those of the app among the key sources of the route, such as ws-protocol:" + clip(offered[0], 64),
	}
}

// offeredProtocols returns the subprotocols that the client offers, in order.
func offeredProtocols(req *h1.Request) []string {
	var offered []string
	for i := req.Find(headerProtocol, 0); i >= 0; i = req.Find(headerProtocol, i+1) {
		_, value := req.Field(i)
		for name := range bytes.SplitSeq(value, []byte(",")) {
			if name = bytes.Trim(name, " \t"); len(name) > 0 {
				offered = append(offered, string(name))
			}
		}
	}
	return offered
}

// AppendSwitching appends the header section of the 101 response.
func (accepted *Accepted) AppendSwitching(b []byte, req *h1.Request, date []byte) []byte {
	b = append(b, "HTTP/1.1 101 Switching Protocols\r\nDate: "...)
	b = append(b, date...)
	b = append(b, "\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: "...)
	b = append(b, wsrelay.AcceptOf(req.Value(headerKey))...)
	b = append(b, "\r\n"...)
	if accepted.Protocol != "" {
		b = append(b, headerProtocol+": "...)
		b = append(b, accepted.Protocol...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// Reasons in close frames if the app's 101 response differs from the node's.
const (
	reasonNoWebSocket = "the app did not accept a WebSocket"
	reasonProtocol    = "the app selected another subprotocol"
	reasonExtension   = "the app selected an extension"
)

// Mismatch returns why the client, which already has the node's 101 response, cannot use the
// WebSocket as accepted by the app. It returns "" if the two responses agree.
func (accepted *Accepted) Mismatch(res *h1.Response, req *h1.Request) string {
	switch {
	case !strings.EqualFold(string(res.Known(h1.FieldUpgrade)), "websocket"), string(res.Value("Sec-WebSocket-Accept")) != wsrelay.AcceptOf(req.Value(headerKey)):
		return reasonNoWebSocket
	case string(res.Value(headerProtocol)) != accepted.Protocol:
		return reasonProtocol
	case res.Has(h1.FieldSecWebSocketExtensions):
		return reasonExtension
	}
	return ""
}
