package shardmap_test

import (
	"testing"

	"shardway/shardmap"
)

// The hash is part of the public API: clients compute it, and it is fixed for the lifetime of a
// cluster. The vectors come from the xxHash specification.
func TestOfIsXXHash64ModN(t *testing.T) {
	tests := []struct {
		key  string
		hash uint64
	}{
		{"", 0xef46db3751d8e999},
		{"a", 0xd24ec4f1a98c6e5b},
		{"abc", 0x44bc2cf5ad770999},
	}
	for _, tt := range tests {
		for _, n := range []int{1, 3, 1000, 1024, shardmap.MaxShards} {
			want := shardmap.Shard(tt.hash % uint64(n))
			if got := shardmap.ShardOf(tt.key, n); got != want {
				t.Errorf("ShardOf(%q, %d) = %d, want %d", tt.key, n, got, want)
			}
			if got := shardmap.ShardOfBytes([]byte(tt.key), n); got != want {
				t.Errorf("OfBytes(%q, %d) = %d, want %d", tt.key, n, got, want)
			}
		}
	}
}

func TestOfAllocatesNothing(t *testing.T) {
	key := []byte("tenant-4711")
	var sink shardmap.Shard
	n := testing.AllocsPerRun(100, func() {
		sink += shardmap.ShardOf("tenant-4711", 1024) + shardmap.ShardOfBytes(key, 1024)
	})
	if n != 0 {
		t.Errorf("ShardOf allocates %v times, want 0", n)
	}
}
