package httpfront

func init() { Poison = true }
