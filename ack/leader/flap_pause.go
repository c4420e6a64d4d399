package leader

import (
	"time"

	"shardway/ack"
)

// flapPause returns how much longer a node stays out of the map after its n-th consecutive
// failure of one kind.
func flapPause(failures uint32) time.Duration { return ack.FlapPause(failures) }
