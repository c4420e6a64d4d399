//go:build race

package ack_test

// simShare is smaller under the race detector, which makes everything slow.
const simShare = 1000
