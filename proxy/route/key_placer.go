package route

import "shardway/proxy/shardkey"

// KeyPlacer determines which node owns a generated key.
type KeyPlacer struct {
	Table          func() *Table          // returns the current routing table
	AcceptsNewKeys func(node string) bool // see proxy.Options; nil means that every node accepts them
}

// Place returns where a key generated here would be served: on this node, on another node, or on a node that should
// not get new keys. service is shardkey.Extractor.Service.
func (placer *KeyPlacer) Place(service string, key []byte) shardkey.Placement {
	table := placer.Table()
	if table.Shards() == 0 || placer.AcceptsNewKeys == nil {
		return shardkey.PlaceElsewhere
	}
	shard, ok := table.ShardOf(service, key)
	if !ok {
		return shardkey.PlaceElsewhere
	}
	switch dest := table.Route(shard); {
	case dest.Kind == Local && placer.AcceptsNewKeys(""):
		return shardkey.PlaceHere
	case dest.Kind == Remote && placer.AcceptsNewKeys(dest.Node):
		return shardkey.PlaceElsewhere
	}
	return shardkey.PlaceAvoided
}
