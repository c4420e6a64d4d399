package h1

// SetLimits replaces Options.MaxHeaderBytes, MaxTargetBytes and MaxHeaderLines, from the
// next head on. Not while the Conn is being read.
func (c *Conn) SetLimits(headBytes, targetBytes, headLines int) {
	o := c.o
	o.MaxHeaderBytes, o.MaxTargetBytes, o.MaxHeaderLines = headBytes, targetBytes, headLines
	c.o = o.withDefaults()
	c.in.max = max(c.o.MaxHeaderBytes, c.o.ReadBuffer)
}
