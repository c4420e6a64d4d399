package shardmap_test

import (
	"testing"

	"shardway/shardmap"
)

func BenchmarkLookup(b *testing.B) {
	m := shardmap.Assign(shardmap.New(1024), nodes(10), shardmap.Policy{})
	key := []byte("tenant-4711")
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Owner(shardmap.ShardOfBytes(key, m.Len()))
	}
}

func BenchmarkAssign(b *testing.B) {
	fresh := shardmap.New(shardmap.MaxShards)
	all := nodes(100)
	full := assignNext(fresh, all)
	most := assignNext(fresh, all[:99])
	half := assignNext(fresh, all[:50])
	one := assignNext(fresh, all[:1])
	for _, bb := range []struct {
		name string
		prev *shardmap.Map
		to   []shardmap.Member
	}{
		{"first", fresh, all},
		{"same", full, all},
		{"join", most, all},
		{"leave", full, all[:99]},
		{"double", half, all},
		{"halve", full, all[:50]},
		{"one-to-100", one, all},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				shardmap.Assign(bb.prev, bb.to, shardmap.Policy{})
			}
		})
	}
}

func BenchmarkStandbys(b *testing.B) {
	for name, weight := range map[string]uint32{"equal": 1, "weighted": 3} {
		members := nodes(100)
		members[7].Weight = weight
		m := assignNext(shardmap.New(4096), members)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				standbys := m.Standbys(shardmap.Policy{Replicas: 2})
				for shard := range shardmap.Shard(m.Len()) {
					standbys.Indexes(shard)
				}
			}
		})
	}
}

func BenchmarkCodec(b *testing.B) {
	m := assignNext(assignNext(shardmap.New(shardmap.MaxShards), nodes(100)), nodes(99))
	enc, err := m.MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			if _, err := m.MarshalBinary(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := shardmap.Decode(enc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(len(enc)), "bytes")
}

func BenchmarkWithEpoch(b *testing.B) {
	base := assignNext(shardmap.New(shardmap.MaxShards), nodes(100))
	next := shardmap.Assign(base, nodes(99), shardmap.Policy{})
	for b.Loop() {
		next.WithEpoch(base, 9)
	}
}
