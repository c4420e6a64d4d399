//go:build !race

package ack_test

// simShare is how many schedules an ordinary test plays.
const simShare = 5000
