package process

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
)

// Without a path an app is well that takes a connection, however it is found out whether it
// does; why it is not says the dial.
func TestAnAppThatTakesAConnectionIsWell(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	dials := 0
	dial := func(ctx context.Context) (net.Conn, error) {
		dials++
		c, err := new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return nil, gone
		}
		return c, nil
	}
	for _, addr := range []string{ln.Addr().String(), "", "localhost:1", "192.0.2.1:80"} {
		if err := appChecker(dial, addr, "", &appInstance{})(t.Context()); err != nil {
			t.Errorf("at %q: %v, want it well", addr, err)
		}
	}
	if dials < 3 {
		t.Errorf("%d dials: an app is asked beside them that is not known to be on this machine", dials)
	}
	_ = ln.Close()
	for _, addr := range []string{ln.Addr().String(), ""} {
		if err := appChecker(dial, addr, "", &appInstance{})(t.Context()); !errors.Is(err, gone) {
			t.Errorf("at %q, where nobody listens: %v, want what the dial says", addr, err)
		}
	}
}

// The data directory keeps the name as JSON, which holds no other bytes than UTF-8. A name that came
// back changed would count as a restart of the app.
func TestAppInstanceIsKeptAsItWasRead(t *testing.T) {
	var a appInstance
	seen := map[string]string{}
	for _, name := range []string{"plain", "é", "\xe9", "\xe8", "a\xffb", "a\ufffdb"} {
		a.set(&name)
		got := a.get()
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var kept string
		if err := json.Unmarshal(b, &kept); err != nil || kept != got || got == "" {
			t.Errorf("%q is %q, and kept it is %q, %v", name, got, kept, err)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q are both %q", other, name, got)
		}
		seen[got] = name
	}
	for _, name := range []string{"", strings.Repeat("x", 257), strings.Repeat("\xff", 65)} {
		if a.set(&name); a.get() != "" {
			t.Errorf("%q is %q, want none", name, a.get())
		}
	}
}
