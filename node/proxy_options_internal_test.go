package node

import (
	"bytes"
	"testing"

	"shardway/ack"
	"shardway/node/appinstance"
	"shardway/node/keyhash"
)

// Once, the proxy was created without the cluster's key and hashed with an empty one, which is the same in all clusters; no test noticed.
func TestProxyHashesWithTheClustersKey(t *testing.T) {
	h, err := keyhash.New(keyhash.Options{Cluster: func() string { return "5b0c0d4f7a9e1c33" }, Shards: 8, State: ack.NewState})
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{options: Options{Shards: 8}, self: "a", hasher: h, appWatches: make([]*appinstance.Watch, 1)}
	if p := n.proxyOptions(); p.HashKey == nil || !bytes.Equal(p.HashKey(), h.Key()) {
		t.Error("the proxy does not hash with the key of the node's cluster")
	}
}
