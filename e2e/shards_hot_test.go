//go:build linux

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// TestHotReportsMostRequestedKeys requests a key of one node through another node. Every
// node reports the owner, and the key by its hash only.
func TestHotReportsMostRequestedKeys(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	shardMap := c.AwaitServing(t)
	owner, ingress, asked := c.Nodes()[0], c.Nodes()[1], c.Nodes()[2]
	key := shardMap.Keys(owner.ID, 1)[0]
	shard := load.ShardOf(key, shardMap.Shards)
	cluster.Await(t, "the key is named", func() error {
		for range 50 {
			if a := c.SendAsync(t, ingress, load.Request{Key: key}).Response(t); !a.OK() {
				return fmt.Errorf("%d %s", a.Status, a.Error)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+asked.Admin+"/v1/hot", http.NoBody)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		var hot struct {
			Shards []struct {
				Shard int
				Node  string
			}
			Keys []struct {
				Shard int
				Hash  string `json:"key_hash"`
				Key   string
			}
		}
		if err = json.Unmarshal(b, &hot); err != nil {
			return err
		}
		if len(hot.Shards) == 0 || hot.Shards[0].Shard != shard || hot.Shards[0].Node != owner.ID {
			return fmt.Errorf("no shard %d at %s: %s", shard, owner.ID, b)
		}
		if len(hot.Keys) == 0 || hot.Keys[0].Shard != shard || hot.Keys[0].Hash == "" || hot.Keys[0].Key != "" {
			return fmt.Errorf("no key of shard %d: %s", shard, b)
		}
		return nil
	})
}
