//go:build linux

package appsilence

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestUnreadRequestsAreCounted asks the kernel about requests to an app that has not accepted its
// connection, that has not read it, and that has read it.
func TestUnreadRequestsAreCounted(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		var lc net.ListenConfig
		ln, err := lc.Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err = c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		conn := waitingConn{local: tcpAddr(c.LocalAddr()), remote: tcpAddr(c.RemoteAddr())}
		sees := func(what string, safe bool, want int) {
			t.Helper()
			conn.isSafeMethod = safe
			deadline, n := time.Now().Add(5*time.Second), countUnread([]waitingConn{conn})
			for n != want && time.Now().Before(deadline) {
				n = countUnread([]waitingConn{conn})
			}
			if n != want {
				t.Errorf("%s, %s: %d are unread, want %d", addr, what, n, want)
			}
		}
		sees("not accepted", false, 1)
		app, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = app.Close() }()
		sees("not read", true, 1)
		sees("the body may not be read", false, 0)
		if _, err := app.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		sees("read", true, 0)
	}
}

func tcpAddr(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		panic(a)
	}
	return normalizeAddr(t)
}

func TestUnusualKernelTablesAreParsed(t *testing.T) {
	t.Parallel()
	conns := []waitingConn{{local: netip.MustParseAddrPort("127.0.0.1:2"), remote: netip.MustParseAddrPort("127.0.0.1:1")}}
	for _, table := range []string{"", "\n\n", "a b c d e f g h i j k", "0: 0100007F 0100007F 01 0:0 0 0 0 0 0", "0: 0100007F:0001 xx:0002 01 0:0 0 0 0 0 0", "0: 01:0001 01:0002 01 0 0 0 0 0 0"} {
		if n := countUnreadInTable(strings.NewReader(table), conns); n != 0 {
			t.Errorf("%q: %d are unread", table, n)
		}
	}
}
