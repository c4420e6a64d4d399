package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// TicketDay is for how long one key makes session tickets for clients. The key before it
// still reads: a ticket is good for one day to two.
const TicketDay = 24 * time.Hour

// TicketDayOf returns the number of the day in which now lies, the same on every node.
func TicketDayOf(now time.Time) int64 { return now.Unix() / int64(TicketDay/time.Second) }

// TicketKeys returns the keys of a day by which nodes make and read tickets of clients' TLS
// sessions, as tls.Config.SetSessionTicketKeys takes them: the first one makes them, all
// are read. It is that of the first secret; the others are of that secret's day before,
// and of the secrets that are accepted beside it. What a certificate is good for goes in:
// a client that was told who this is by one takes nobody for that who has another.
func (l List) TicketKeys(day int64, goodFor [sha256.Size]byte) [][32]byte {
	keys := make([][32]byte, 0, 2*len(l))
	for _, s := range l {
		for _, d := range []int64{day, day - 1} {
			label := labelTicket + strconv.FormatInt(d, 10) + ", certificate for " + hex.EncodeToString(goodFor[:])
			keys = append(keys, [32]byte(s.derive(label, 32)))
		}
	}
	return keys
}
