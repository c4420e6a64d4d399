package crashdetect

import (
	"context"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"shardway/peer"
)

// ownersWithDial returns an UnreachableOwners whose dials to node b return err, and to other nodes fail without an
// address. Each node is an owner.
func ownersWithDial(err *error) *UnreachableOwners {
	return &UnreachableOwners{
		Port: peer.New(peer.Options{
			Node: "a", Disk: "d", Boot: 1, Cluster: func() string { return "c" },
			Lookup: func(node string) (string, bool) { return "b:1", node == "b" },
			Dial:   func(context.Context, string) (net.Conn, error) { return nil, *err },
		}),
		HeardRecently: func(string) bool { return false }, IsOwner: func(string) bool { return true },
	}
}

// A node that has no file descriptors left must not report that it cannot reach the others: the leader could exclude
// them for that.
func TestLocalDialErrorIsNoReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		u := ownersWithDial(&err)
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
			err = &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", errno)}
			if u.checkOwner(t.Context(), "b", false); len(u.Unreachable()) > 0 {
				t.Errorf("%v is reported as unreachable after %v", u.Unreachable(), err)
			}
		}
		if u.checkOwner(t.Context(), "unknown", false); len(u.Unreachable()) > 0 {
			t.Errorf("%v is reported as unreachable, although its address is not known", u.Unreachable())
		}
		for _, errno := range []syscall.Errno{syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ECONNREFUSED, syscall.ETIMEDOUT} {
			clear(u.unreachable)
			err = &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
			if u.checkOwner(t.Context(), "b", false); !slices.Equal(u.Unreachable(), []string{"b"}) {
				t.Errorf("reported %v after %v, want node b", u.Unreachable(), err)
			}
		}
	})
}

// Other nodes choose the names that they suspect, so these must not fill the memory.
func TestSuspectIgnoresNodesThatAreNoOwners(t *testing.T) {
	u := ownersWithDial(nil)
	u.IsOwner = func(node string) bool { return node == "b" }
	u.Suspect("b")
	u.Suspect("no-owner")
	if len(u.suspects) != 1 || !u.suspects["b"] {
		t.Errorf("suspects %v, want only node b", u.suspects)
	}
}
