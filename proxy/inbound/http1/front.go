// Package http1 is the strict HTTP/1 front: it makes a client connection the inbound.Request of the
// pipeline in package proxy.
//
// The connection's goroutine uses a Front for successive requests. Package h1 validates the
// requests.
package http1

import (
	"net"
	"net/http"
	"strconv"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
	"shardway/proxy/inbound"
)

var (
	_ inbound.Request  = (*Front)(nil)
	_ inbound.Upgrader = (*Front)(nil)
)

// Front makes an accepted connection the inbound.Request of its successive requests. The h1.Conn provides the
// methods that need no adaptation.
type Front struct {
	*h1.Conn
	Request *h1.Request // the current request
}

// WriteLocal implements inbound.Request.
func (front *Front) WriteLocal(status int, lines, body []byte, keepAlive bool) error {
	writer := front.Writer()
	var scratch [64]byte
	writer.Put(h1.AppendStatusLine(scratch[:0], status, fasthttp.StatusMessage(status)))
	writer.Put(lines)
	if status >= http.StatusOK {
		dst := append(scratch[:0], "Content-Length: "...)
		writer.Put(append(strconv.AppendInt(dst, int64(len(body)), 10), "\r\n"...))
		switch {
		case !keepAlive:
			writer.PutString("Connection: close\r\n")
		case front.Request.Minor() == 0:
			writer.PutString("Connection: keep-alive\r\n")
		}
	}
	writer.PutString("\r\n")
	if !front.Request.IsHead() {
		writer.Put(body)
	}
	return writer.Flush()
}

// Addrs implements inbound.Request.
func (front *Front) Addrs() (local, remote net.Addr) {
	conn := front.NetConn()
	return conn.LocalAddr(), conn.RemoteAddr()
}

// UpgradeConn implements inbound.Upgrader.
func (front *Front) UpgradeConn() *h1.Conn { return front.Conn }
