package gossip_test

import (
	"testing"
	"time"

	"shardway/node/gossip"
)

// newcomer returns the tags of a node without a cluster.
func newcomer(name string) gossip.Tags { return withDisk(name, "") }

// withDisk returns the tags of a node that belongs to a cluster, with its disk.
func withDisk(name, cluster string) gossip.Tags {
	t := inCluster(name, cluster)
	t.Disk = "d-" + name
	return t
}

// diskOf returns the disk that a member announces to another member.
func diskOf(at *member, name string) (disk string, seen bool) {
	for _, m := range at.Members() {
		if m.ID == name {
			return m.Tags.Disk, true
		}
	}
	return "", false
}

// No leader can add a node whose join addresses belong to two clusters. The node can join once one of the addresses belongs to the other
// cluster. Once, it was added to the cluster that responded first.
func TestNodeWithJoinAddressesOfTwoClustersAnnouncesNoDisk(t *testing.T) {
	t.Parallel()
	for range 4 { // the order of the addresses is random
		bubble(t, func(s *swarm) {
			a, b := s.add("a", inCluster("a", "first")), s.add("b", inCluster("b", "second"))
			c := s.add("c", newcomer("c"), a.host.Addr(port), b.host.Addr(port))
			for range 60 {
				time.Sleep(time.Second)
				for _, m := range []*member{a, b} {
					if disk, seen := diskOf(m, "c"); seen && disk != "" {
						t.Fatal("c announces its disk though its join addresses belong to two clusters")
					}
				}
			}
			x, found := c.JoinConflict()
			if found && x.First.Cluster == "second" {
				x.First, x.Second = x.Second, x.First
			}
			want := gossip.Conflict{First: gossip.JoinedCluster{Cluster: "first", Node: "a", Addr: a.host.Addr(port)}, Second: gossip.JoinedCluster{Cluster: "second", Node: "b", Addr: b.host.Addr(port)}}
			if x != want {
				t.Errorf("conflict = %+v, want %+v", x, want)
			}
			if _, seen := diskOf(a, "b"); seen {
				t.Error("the two clusters see each other")
			}
		})
	}
}

// These nodes may be added: all join addresses belong to one cluster, one address does not respond, or no node has a cluster.
func TestNewcomerAnnouncesItsDiskSoon(t *testing.T) {
	t.Parallel()
	for name, clusters := range map[string][2]string{"one cluster": {"x", "x"}, "a new node": {"x", ""}, "new nodes": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(s *swarm) {
				a, b := s.add("a", inCluster("a", clusters[0])), s.add("b", inCluster("b", clusters[1]))
				gone := s.add("gone", newcomer("gone"))
				gone.host.Vanish()
				c := s.add("c", newcomer("c"), a.host.Addr(port), gone.host.Addr(port), b.host.Addr(port))
				time.Sleep(5 * time.Second)
				if disk, _ := diskOf(a, "c"); disk != "d-c" {
					t.Errorf("c announces disk %q", disk)
				}
				if x, found := c.JoinConflict(); found {
					t.Errorf("conflict %+v", x)
				}
			})
		})
	}
}

// A node that belongs to a cluster reports a join address of another cluster.
func TestMemberOfAClusterReportsAJoinAddressOfAnother(t *testing.T) {
	t.Parallel()
	bubble(t, func(s *swarm) {
		a, b := s.add("a", inCluster("a", "first")), s.add("b", inCluster("b", "second"))
		c := s.add("c", withDisk("c", "first"), a.host.Addr(port), b.host.Addr(port))
		time.Sleep(time.Minute)
		want := gossip.Conflict{First: gossip.JoinedCluster{Cluster: "first"}, Second: gossip.JoinedCluster{Cluster: "second", Node: "b", Addr: b.host.Addr(port)}}
		if x, _ := c.JoinConflict(); x != want {
			t.Errorf("conflict = %+v, want %+v", x, want)
		}
		if disk, _ := diskOf(a, "c"); disk != "d-c" {
			t.Errorf("c announces disk %q", disk)
		}
	})
}
