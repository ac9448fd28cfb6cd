module github.com/cleavekv/cleave/bench

go 1.26.0

replace github.com/cleavekv/cleave => ../

require (
	github.com/alphadose/haxmap v1.4.0
	github.com/orcaman/concurrent-map/v2 v2.0.1
	github.com/puzpuzpuz/xsync/v4 v4.5.0
)

require golang.org/x/exp v0.0.0-20221031165847-c99f073a8326 // indirect
