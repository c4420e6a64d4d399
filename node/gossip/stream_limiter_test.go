package gossip_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"shardway/node/gossip"
)

// flooder opens one stream after the other from an address that no node has. On each it announces 19 MiB, which are never decrypted.
func flooder(t *testing.T, from, to string, stop <-chan struct{}) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	chunk := make([]byte, 64<<10)
	for {
		select {
		case <-stop:
			return
		default:
		}
		c, err := d.DialContext(t.Context(), "tcp", to)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Write(binary.BigEndian.AppendUint32([]byte{10}, 19<<20)) // 10 means encrypted
		for err == nil {
			_, err = c.Write(chunk)
		}
		_ = c.Close()
	}
}

// Streams of strangers end each other, and a node that has the secret can join in the meantime. Once, strangers could kill a node through the
// gossip port: each stream buffered 20 MiB before the first byte was decrypted, and 120 streams took 877 MB.
func TestFloodKeepsToItsBounds(t *testing.T) {
	const stranger, streams, source, bytes = "127.0.0.2", 48, 32, 4 << 20
	if ln, err := net.Listen("tcp", stranger+":0"); err != nil {
		t.Skip("there is no second address:", err)
	} else {
		_ = ln.Close()
	}
	key := []byte(strings.Repeat("k", 32))
	a, stopA := real(t, gossip.Options{Tags: node("a"), Keys: [][]byte{key}})
	defer stopA()
	stop := make(chan struct{})
	var flood sync.WaitGroup
	for range streams {
		flood.Go(func() { flooder(t, stranger, a.Addr().String(), stop) })
	}
	looks, deadline := 0, time.Now().Add(30*time.Second)
	within := func() gossip.StreamStats {
		s := a.StreamStatistics()
		looks++
		if s.Open > source+1 || s.Bytes > bytes+1<<20 { // and one stream of the other source
			t.Fatalf("%d streams with %d bytes are kept, want at most %d and %d", s.Open, s.Bytes, source, bytes)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the flood closed nothing: %+v", s)
		}
		return s
	}
	for s := within(); s.Closed["source-bytes"] < 20 || s.Closed["source-streams"] < 20; s = within() {
		<-time.After(time.Millisecond)
	}
	b, stopB := real(t, gossip.Options{Tags: node("b"), Keys: [][]byte{key}, JoinAddrs: []string{a.Addr().String()}})
	defer stopB()
	alive(t, 2, a, b)
	within()
	close(stop)
	flood.Wait()
	for s := within(); s.Open > 0 || s.Bytes > 0; s = within() {
		<-time.After(time.Millisecond)
	}
	t.Logf("looked %d times, closed %v", looks, a.StreamStatistics().Closed)
}

// tapped measures the streams that memberlist opens.
type tapped struct {
	memberlist.NodeAwareTransport
	most *atomic.Int64
}

func (t *tapped) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	c, err := t.NodeAwareTransport.DialAddressTimeout(a, d)
	if err != nil {
		return nil, err
	}
	return &metered{Conn: c, most: t.most}, nil
}

type metered struct {
	net.Conn
	most *atomic.Int64
	n    int64
}

func (c *metered) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n += int64(n)
	if c.n > c.most.Load() {
		c.most.Store(c.n)
	}
	return n, err
}

// The size of a flood and of a cluster's state are far apart: members with different names and tags of the maximum length take less than
// 800 bytes each, so a stream of 2 MiB holds 2 600 of them.
func TestStateOfLargeClusterFitsAStream(t *testing.T) {
	bubble(t, func(s *swarm) {
		var most atomic.Int64
		s.tap = func(tr memberlist.NodeAwareTransport) memberlist.NodeAwareTransport { return &tapped{tr, &most} }
		r := rand.New(rand.NewPCG(1, 2))
		word := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = "abcdefghijklmnopqrstuvwxyz0123456789-ABCDEFGHIJKLMNOPQRSTUVWXYZ"[r.IntN(63)]
			}
			return string(b)
		}
		const n = 8
		var all []*member
		var join []string
		for range n {
			name := word(64)
			tags := node(name)
			m := s.add(name, tags, join...)
			tags.Zone = word(512 - 190) // longer than a new member may start with
			if err := m.SetTags(tags); err != nil {
				s.t.Fatal(err)
			}
			all = append(all, m)
			join = []string{all[0].host.Addr(port)}
		}
		s.whole(all...)
		time.Sleep(30 * time.Second) // every member exchanges its state
		if each := most.Load() / n; each < 400 || each > 800 {
			t.Errorf("a member takes %d bytes of a stream, want what the bound was reckoned by", each)
		} else {
			t.Logf("a member takes %d bytes of a stream", each)
		}
	})
}
