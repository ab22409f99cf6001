#!/bin/sh
# Stands in for the server in the launcher's own test: says where its configuration told it to listen, as the server does,
# then waits to be ended.
[ "$1 $2" = 'serve --config' ] || exit 2
port=$(sed -n 's/^listen = .*:\([0-9]*\)"]$/\1/p' "$3")
[ "$port" = 0 ] && port=40001
echo "listening on https://127.0.0.1:$port"
echo 'admin on http://127.0.0.1:40002'
echo ready
while :; do sleep 0.05; done
