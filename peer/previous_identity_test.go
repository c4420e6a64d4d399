package peer_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"shardway/peer"
)

// memory is a DiskRecords with one record of its own disk and one of all other disks.
type memory struct {
	own, known peer.Record
	boot       uint64
	why        peer.Refusal

	mu  sync.Mutex
	met []peer.Handshake
}

func (m *memory) LocalRecord() peer.Record                      { return m.own }
func (m *memory) RecordOf(string, string) (uint64, peer.Record) { return m.boot, m.known }

func (m *memory) CheckHandshake(_ context.Context, met peer.Handshake) (peer.Refusal, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.met = append(m.met, met)
	return m.why, "its past"
}

func (m *memory) last(t *testing.T) peer.Handshake {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.met) == 0 {
		t.Fatal("no peer was met")
	}
	return m.met[len(m.met)-1]
}

func TestBothEndsExchangePreviousIdentities(t *testing.T) {
	var b book
	left := &memory{own: peer.Record{Nonce: 1, Term: 2, Last: 3, Applied: 4}, boot: 9, known: peer.Record{Nonce: 10, Term: 11, Applied: 12}}
	right := &memory{own: peer.Record{Nonce: 5, Term: 6, Last: 7, Applied: 8}}
	p := echoes(t, &b, peer.Options{Node: "a", Disk: "x", Boot: 20, DiskRecords: left})
	echoes(t, &b, peer.Options{Node: "b", Disk: "y", Boot: 21, DiskRecords: right})
	for _, kind := range []peer.Kind{peer.Raft, peer.Heartbeat, peer.Forward, peer.Control} {
		c, err := p.DialServer(t.Context(), "b", "y", kind)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		got, want := left.last(t), peer.Handshake{Kind: kind, Dialed: true, Peer: peer.Identity{Cluster: "c1", Node: "b", Disk: "y", Boot: 21, Record: right.own}}
		if got != want {
			t.Errorf("the dialer met %+v, want %+v", got, want)
		}
		got = right.last(t)
		want = peer.Handshake{Kind: kind, Peer: peer.Identity{Cluster: "c1", Node: "a", Disk: "x", Boot: 20, Record: left.own}, BootKnownToPeer: left.boot, RecordKnownToPeer: left.known}
		if got != want {
			t.Errorf("the port met %+v, want %+v", got, want)
		}
	}
	// A peer that does not name the disk cannot have a record of it.
	if err := dialAndClose(p, "b", peer.Control); err != nil {
		t.Fatal(err)
	}
	if got := right.last(t); got.BootKnownToPeer != 0 || got.RecordKnownToPeer != (peer.Record{}) {
		t.Errorf("reported %d and %+v for no disk", got.BootKnownToPeer, got.RecordKnownToPeer)
	}
}

func dialAndClose(p *peer.Port, node string, kind peer.Kind) error {
	c, err := p.Dial(context.Background(), node, kind)
	if err == nil {
		_ = c.Close()
	}
	return err
}

func TestEitherEndRefusesPreviousIdentity(t *testing.T) {
	var b book
	wary := &memory{}
	p := echoes(t, &b, peer.Options{Node: "a", Disk: "x", DiskRecords: wary})
	q := echoes(t, &b, peer.Options{Node: "b", Disk: "y"})
	wary.why = peer.RefusedStaleDialerDisk
	if err := dialAndClose(p, "b", peer.Control); !errors.Is(err, peer.ErrNotTrusted) || !strings.Contains(err.Error(), "its past") {
		t.Errorf("dial = %v, want it given up for the past", err)
	}
	err := dialAndClose(q, "a", peer.Control)
	if re, ok := errors.AsType[*peer.RefusedError](err); !ok || re.Code != peer.RefusedStaleDialerDisk || re.Reason != "its past" {
		t.Errorf("dial = %v, want it refused for the past", err)
	}
}
