"""Teams that span machines: the store on NATS JetStream.

One ordered log per team, written with compare-and-set, is the truth. `log` keeps and folds it,
`wire` holds what the client library lacks, `store` is the contract.
"""
