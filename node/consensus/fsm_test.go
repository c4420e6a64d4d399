package consensus

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// kept is an FSM that stores its last snapshot.
type kept struct{ state []byte }

func (k *kept) Apply(uint64, uint64, []byte) any { return nil }
func (k *kept) Snapshot() ([]byte, error)        { return k.state, nil }
func (k *kept) Restore(b []byte) error           { k.state = b; return nil }

func restore(b []byte) (*kept, uint64, error) {
	k := &kept{}
	m := &fsmAdapter{fsm: k}
	err := m.Restore(io.NopCloser(bytes.NewReader(b)))
	return k, m.applied.Load(), err
}

func TestSnapshotRoundTrip(t *testing.T) {
	for _, state := range []string{"", "x", strings.Repeat("long", 1<<16)} {
		b := append(encodeHeader(42, []byte(state)), state...)
		k, applied, err := restore(b)
		if err != nil || string(k.state) != state || applied != 42 {
			t.Errorf("restored %d bytes at %d, %v, want %d at 42", len(k.state), applied, err, len(state))
		}
	}
}

func TestForeignSnapshotsAreRefused(t *testing.T) {
	good := append(encodeHeader(42, []byte("state")), "state"...)
	newer := bytes.Clone(good)
	newer[len(snapshotMagic)] = 2
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":     {nil, "not a snapshot"},
		"short":     {good[:snapshotHeaderLen-1], "not a snapshot"},
		"foreign":   {append([]byte("X"), good[1:]...), "not a snapshot"},
		"version":   {newer, "version 2, this program supports version 1"},
		"cut":       {good[:len(good)-1], "checksum"},
		"prolonged": {append(bytes.Clone(good), 'x'), "checksum"},
	} {
		k, applied, err := restore(c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) || k.state != nil || applied != 0 {
			t.Errorf("%s: error %v, applied %d, want %q and nothing restored", name, err, applied, c.want)
		}
	}
}
