package gossip_test

import (
	"encoding/base64"
	"io"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// foreignMember starts a Serf member that has these gossip keys, but is no node.
func (s *swarm) foreignMember(name string, keys ...[]byte) *serf.Serf {
	s.t.Helper()
	x := s.foreignMemberAt(name, name, nil, keys...)
	if _, err := x.Join([]string{s.host("a").Addr(port)}, true); err != nil {
		s.t.Fatal(err)
	}
	return x
}

// foreignMemberAt starts a Serf member on a host, which joins no other member.
func (s *swarm) foreignMemberAt(host, name string, tags map[string]string, keys ...[]byte) *serf.Serf {
	s.t.Helper()
	tr, err := s.host(host).Transport(port)
	if err != nil {
		s.t.Fatal(err)
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		s.t.Fatal(err)
	}
	c := serf.DefaultConfig()
	c.NodeName, c.Tags, c.DisableCoordinates = name, tags, true
	c.Logger = log.New(io.Discard, "", 0)
	c.MemberlistConfig.Logger = c.Logger
	c.MemberlistConfig.Transport, c.MemberlistConfig.Keyring = tr, ring
	c.MemberlistConfig.AdvertiseAddr, _, _ = strings.Cut(s.host(host).Addr(port), ":")
	c.MemberlistConfig.AdvertisePort = port
	x, err := serf.Create(c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.all = append(s.all, &member{sw: s, host: s.host(host), stop: func() { _ = x.Shutdown() }})
	return x
}

// Key queries of Serf get no response. Once, Serf returned the keys of all members to every member, and changed them on request: an
// attacker with a secret that had been replaced manually received the next one, and could install its own.
func TestAttackerWithOldSecretGetsNoNewKey(t *testing.T) {
	bubble(t, func(s *swarm) {
		old, next := key(1), key(2)
		s.keys = map[string][][]byte{"a": {old}, "b": {old}}
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), s.host("a").Addr(port))
		s.whole(a, b)
		thief := s.foreignMember("thief", old)
		time.Sleep(10 * time.Second)
		for _, m := range []*member{a, b} {
			if err := m.SetKeys([][]byte{old, next}); err != nil {
				t.Fatal(err)
			}
		}
		got, _ := thief.KeyManager().ListKeys() // it fails even with a response
		if n := got.Keys[base64.StdEncoding.EncodeToString(next)]; n > 0 {
			t.Errorf("%d nodes told the next key", n)
		}
		done, _ := thief.KeyManager().InstallKey(base64.StdEncoding.EncodeToString(key(9)))
		if said := done.NumResp - 1; said > 0 { // the response of the attacker's own member
			t.Errorf("%d nodes took a key of his, or said why not", said)
		}
	})
}

// Queries are ignored. Once, one message that the library does not expect ended the process. Any member could send it, and each node
// forwarded it to all others.
func TestQueriesAreIgnored(t *testing.T) {
	bubble(t, func(s *swarm) {
		s.keys = map[string][][]byte{"a": {key(1)}}
		a := s.add("a", node("a"))
		x := s.foreignMember("thief", key(1))
		time.Sleep(time.Second)
		for _, about := range []string{"_serf_install-key", "_serf_use-key", "_serf_remove-key", "_serf_list-keys", "_serf_ping", "else"} {
			r, err := x.Query(about, nil, &serf.QueryParam{FilterNodes: []string{"a"}, Timeout: time.Second, RequestAck: true})
			if err != nil {
				t.Fatal(err)
			}
			if from, ok := <-r.AckCh(); ok {
				t.Errorf("%s: %s has heard the query", about, from)
			}
		}
		time.Sleep(10 * time.Second)
		s.whole(a)
	})
}
