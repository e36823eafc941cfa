-- compatible: no
-- Every document. Names are compared by code point whatever the database's language is, so that
-- every store has the same order. Pages are filled to four fifths: a document is changed often, and
-- a changed row that finds room on its own page costs no work in the index.
CREATE TABLE rota.documents (
    collection text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    version    bigint NOT NULL CHECK (version > 0),
    body       bytea NOT NULL,
    PRIMARY KEY (collection, key)
) WITH (fillfactor = 80);
