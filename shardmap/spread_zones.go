package shardmap

// maxZoneScale bounds the weights that weighZones computes, so that no product of a weight and a number of shards
// overflows.
const maxZoneScale = 1 << 32

// weighZones replaces the weights of the active members so that all zones have the same total weight, if the policy
// spreads shards over zones. zonesKnown is false if the zone of an active member is unknown; the weights are then
// unchanged.
func (pl *placement) weighZones(policy Policy, active []int16) (zonesKnown bool) {
	if !policy.SpreadZones {
		return true
	}
	totals := map[string]int{}
	for _, i := range active {
		zone, isKnown := policy.Zones[pl.shardMap.members[i].ID]
		if !isKnown {
			return false
		}
		totals[zone] += pl.weights[i]
	}
	scale := 1
	for _, i := range active { // not a loop over the Go map, whose order is random
		total := totals[policy.Zones[pl.shardMap.members[i].ID]]
		if multiple := scale / greatestCommonDivisor(scale, total) * total; multiple <= maxZoneScale {
			scale = multiple
		} else {
			scale = maxZoneScale // the weights are rounded
			break
		}
	}
	for _, i := range active {
		// scale is at most 2^32 and a weight at most 1000, so the product does not overflow.
		pl.weights[i] = max(scale*pl.weights[i]/totals[policy.Zones[pl.shardMap.members[i].ID]], 1)
	}
	return true
}

// greatestCommonDivisor returns the greatest common divisor of two positive numbers.
func greatestCommonDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
