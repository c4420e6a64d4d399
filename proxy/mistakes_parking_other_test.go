//go:build !linux

package proxy_test

// mistakesOfParking are none where nothing is parked.
func mistakesOfParking() []mistake { return nil }
