package shardmap

// selectSmallest reorders keys so that the n smallest ones come first (quickselect). No two keys
// may be equal. The cost is linear: sorting the keys of a member that owns all 65,536 shards would
// take longer than the rest of Assign. The keys are hashes, so the middle one is as good a pivot as
// any other.
func selectSmallest(keys []uint64, n int) {
	for n > 0 && n < len(keys) {
		pivot := keys[len(keys)/2]
		i, j := 0, len(keys)-1
		for i <= j {
			for keys[i] < pivot {
				i++
			}
			for keys[j] > pivot {
				j--
			}
			if i <= j {
				keys[i], keys[j] = keys[j], keys[i]
				i++
				j--
			}
		}
		// keys[:j+1] ≤ pivot ≤ keys[i:], and a key in between equals the pivot.
		switch {
		case n <= j:
			keys = keys[:j+1]
		case n > i:
			keys, n = keys[i:], n-i
		default:
			return
		}
	}
}
