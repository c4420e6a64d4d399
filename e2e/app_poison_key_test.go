//go:build linux

package e2e_test

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// TestPoisonKeyIsReportedAndQuarantined uses a key that kills each process that runs its
// requests, with the app embedded in the node. At most two nodes die, and the status
// reports the hash of the key. In quarantine, further requests for the key affect no
// node.
func TestPoisonKeyIsReportedAndQuarantined(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 5, Shards: shards, Embedded: true, Secret: true})
	c.AwaitServing(t)
	ingress := c.Nodes()[0]
	ingress.AwaitStatus(t, "all vote", func(s cluster.Status) bool { // two voters will die
		voters := 0
		for _, n := range s.Nodes {
			if n.Voter {
				voters++
			}
		}
		return voters == len(c.Nodes())
	})
	ingress.PerformAction(t, "drain", url.Values{"node": {ingress.ID}}) // it must survive to report the key
	cluster.Await(t, "the ingress owns nothing", func() error {
		shardMap, err := ingress.Map(t.Context())
		if err == nil && shardMap.Counts()[ingress.ID] > 0 {
			err = errors.New("it owns shards")
		}
		return err
	})
	shardMap, err := ingress.Map(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := shardMap.Keys(c.Nodes()[1].ID, 1)[0]
	poison := load.Request{Key: key, Header: map[string]string{"App-Die": "before"}}
	if resp := c.SendAsync(t, ingress, poison).Response(t); resp.Status != 502 {
		t.Errorf("the request that killed two nodes got %d %s, want 502", resp.Status, resp.Error)
	}
	var fallen []*cluster.Node
	cluster.Await(t, "two nodes have fallen", func() error {
		fallen = slices.DeleteFunc(c.Nodes(), (*cluster.Node).Running)
		if len(fallen) < 2 {
			return fmt.Errorf("%d have", len(fallen))
		}
		return nil
	})
	named := regexp.MustCompile("quarantine --shard ([0-9]+) --hash ([0-9a-f]{16})")
	var found []string
	cluster.Await(t, "the key is suspected", func() error {
		for _, node := range c.Running() {
			s, err := node.Status(t.Context())
			if err != nil {
				return err
			}
			found = named.FindStringSubmatch(s.FindingsText())
			if found == nil {
				return errors.New(node.ID + " reports no suspected key")
			}
		}
		return nil
	})
	diagnosisTest{t, c}.wantFinding(ingress, diagnosis.PoisonSuspect, "requests of the key with key_hash "+found[2]+", in shard "+found[1]+", were under way at ")
	last := c.Running()[len(c.Running())-1]
	last.PerformAction(t, "quarantine", url.Values{"shard": {found[1]}, "hash": {found[2]}})
	cluster.Await(t, "it is refused", func() error {
		for _, node := range c.Running() {
			p, err := node.Status(t.Context())
			if err != nil {
				return err
			}
			if !strings.Contains(p.FindingsText(), "1 key is in quarantine") || strings.Contains(p.FindingsText(), "poison-suspect") {
				return errors.New(node.ID + " does not know of it")
			}
		}
		return nil
	})
	for _, node := range c.Running() {
		for range 3 {
			if resp := c.SendAsync(t, node, poison).Response(t); resp.Status != 503 || resp.Error != "quarantined" {
				t.Errorf("in quarantine, by %s: %d %s", node.ID, resp.Status, resp.Error)
			}
		}
	}
	if n := len(c.Running()); n != 3 {
		t.Errorf("%d nodes are left, want 3", n)
	}
	for _, node := range fallen {
		node.Start(t)
	}
	cluster.Await(t, "the killed nodes run again", func() error {
		for _, node := range fallen {
			if err := node.Ready(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	if resp := c.SendAsync(t, fallen[0], poison).Response(t); resp.Status != 503 || resp.Error != "quarantined" {
		t.Errorf("in quarantine, by one that had fallen: %d %s", resp.Status, resp.Error)
	}
	last.PerformAction(t, "lift", url.Values{"shard": {found[1]}, "hash": {found[2]}})
	cluster.Await(t, "it is served again", func() error {
		if resp := c.SendAsync(t, ingress, load.Request{Key: key}).Response(t); !resp.OK() {
			return errors.New(resp.Error)
		}
		return nil
	})
}
