package h1

// SetLimits replaces Options.HeadBytes, TargetBytes and HeadLines, from the
// next head on. Not while the Conn is being read.
func (c *Conn) SetLimits(headBytes, targetBytes, headLines int) {
	o := c.o
	o.HeadBytes, o.TargetBytes, o.HeadLines = headBytes, targetBytes, headLines
	c.o = o.withDefaults()
	c.in.max = max(c.o.HeadBytes, c.o.ReadBuffer)
}
