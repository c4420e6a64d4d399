package shardmap

// split reorders keys, no two of which are equal, so that the n smallest come
// first (quickselect): linear, where sorting a member that owns all of 65 536
// shards takes longer than the rest of Assign. The keys are hashes, so the middle
// one is as good a pivot as any.
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
		// keys[:j+1] ≤ pivot ≤ keys[i:], and what lies between equals the pivot.
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
