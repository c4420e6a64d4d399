package shardmap

import (
	"fmt"
	"strconv"
	"strings"
)

// maxListed is the maximum number of shards that FormatShards lists.
const maxListed = 8

// FormatShards returns a text with the number of shards and the first maxListed of them, for
// example "2 shards: 3, 7". shards must not be empty.
func FormatShards(shards []Shard) string {
	var numbers []string
	for _, shard := range shards[:min(len(shards), maxListed)] {
		numbers = append(numbers, strconv.Itoa(int(shard)))
	}
	if len(shards) > maxListed {
		numbers = append(numbers, "…")
	}
	if len(shards) == 1 {
		return "shard " + numbers[0]
	}
	return fmt.Sprintf("%d shards: %s", len(shards), strings.Join(numbers, ", "))
}
