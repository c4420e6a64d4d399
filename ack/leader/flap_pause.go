package leader

import "time"

const (
	// firstFlapPause is the pause after the second failure. It doubles up to maxFlapPause.
	firstFlapPause = 2 * time.Second
	maxFlapPause   = 5 * time.Minute
)

// flapPause returns how much longer a node stays out of the map after its n-th consecutive
// failure of one kind: nothing after the first, 2 s after the second, and twice as long after
// each further one, up to 5 minutes.
func flapPause(failures uint32) time.Duration {
	if failures < 2 {
		return 0
	}
	pause := firstFlapPause
	for range failures - 2 {
		if pause *= 2; pause >= maxFlapPause {
			return maxFlapPause
		}
	}
	return pause
}
